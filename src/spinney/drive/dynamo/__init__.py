"""The Dynamo part: deployments become sets, and what becomes of the sets is reported on the deployments."""
