"""What everything else uses: errors, requests and replies as values, identities, kinds, the store and its journal."""
