"""Our kinds, typed in full: spec and status as they are served, with the words and bounds their CRDs are made from."""
