"""Services that know nothing about compilers: errors, configuration, spelling help."""
