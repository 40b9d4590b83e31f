"""What a PodCliqueSet implies: its layout, topology, revisions and update. Pure."""
