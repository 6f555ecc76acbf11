"""The only code that joins the core to the ports."""
