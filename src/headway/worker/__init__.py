"""The worker program: registers functions as services and serves them at `/exec/{service}`."""
