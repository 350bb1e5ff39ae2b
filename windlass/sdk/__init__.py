"""Programs that talk to a master: sessions, a small client, packing of model directories."""
