"""What others run against their own parts: contract suites. They need pytest with pytest-asyncio in auto mode."""
