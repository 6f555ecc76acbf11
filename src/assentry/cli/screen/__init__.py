"""The full-screen inbox: what is drawn, what is heard live, and what a person says to it."""
