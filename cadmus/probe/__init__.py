"""What the hidden states tell about the two compared values, layer by layer and token by token."""
