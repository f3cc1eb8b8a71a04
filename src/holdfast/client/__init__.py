"""What an application imports to publish and subscribe."""
