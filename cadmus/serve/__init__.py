"""A model behind the OpenAI API."""
