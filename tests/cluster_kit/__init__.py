"""What the contract, kubectl and client tests stand on: two API servers and raw access to them."""
