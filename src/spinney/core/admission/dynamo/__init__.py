"""May a DynamoGraphDeployment enter? Rules in the words of the version that the user wrote."""
