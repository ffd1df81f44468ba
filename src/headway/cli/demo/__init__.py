"""`headway demo`: runs and flows at work, on a server, a worker and a database of their own."""
