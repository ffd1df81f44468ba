"""The store on SQLite, PostgreSQL and MariaDB/MySQL."""
