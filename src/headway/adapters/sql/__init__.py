"""SQLite, PostgreSQL and MariaDB/MySQL."""
