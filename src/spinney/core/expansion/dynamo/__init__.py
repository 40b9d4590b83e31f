"""DynamoGraphDeployments: the objects generated for a graph of components, behind one framework interface (D4)."""
