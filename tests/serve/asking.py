"""Requests to the server."""

NAME = "tiny"
LOCAL = "http://127.0.0.1"


def ask(client, **fields):
    """Return the response to a request, greedy by default."""
    response = client.post("/v1/completions", json={"model": NAME, "temperature": 0, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def choices(client, **fields):
    return ask(client, **fields)["choices"]
