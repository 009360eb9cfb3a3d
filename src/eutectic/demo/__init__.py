"""`eutectic demo`: compile trained networks, name what is on photos, compare with torch eager."""
