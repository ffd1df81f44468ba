"""`headway demo`: runs and flows on the demo's own server, worker and database."""
