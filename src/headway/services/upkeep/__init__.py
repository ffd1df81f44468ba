"""Background services and maintenance: schedules, retention, mirror, doctor, events."""
