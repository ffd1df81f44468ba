"""The program behind `/exec/<service>`: register functions as services, and serve them."""
