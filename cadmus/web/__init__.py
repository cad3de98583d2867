"""Protection of the HTTP servers: connections, Host headers, queued work."""
