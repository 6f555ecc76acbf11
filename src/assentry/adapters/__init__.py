"""What joins Assentry to other people's libraries, each in a module of its own and none needed by the rest."""
