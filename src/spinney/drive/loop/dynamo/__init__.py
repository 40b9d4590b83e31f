"""The Dynamo part: deployments become sets, and what becomes of the sets is told on the deployments."""
