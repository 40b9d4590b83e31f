"""DynamoGraphDeployments: what a graph of components implies, behind one interface per framework (D4)."""
