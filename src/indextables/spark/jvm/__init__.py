"""The JVM of a session: find Java, compile our classes, call them."""
