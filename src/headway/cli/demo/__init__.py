"""`headway demo`: runs and flows on a server, a worker and a database of the demo."""
