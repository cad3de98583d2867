"""OpenAI-compatible server for a model (docs/serve.md)."""
