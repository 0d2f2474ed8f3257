// Package config reads the one YAML file that a router is configured with.
//
// The file is read strictly: an unknown key, a value of the wrong type, a key that
// is there twice are errors, and so is every value that makes no sense. All of
// them are reported at once, each with file, line, the path of the key, what was
// found and what it may be ([Error]). A key that is absent has its default, which
// is not the same as a key that says 0: load_factor: 0 switches the rule off.
//
//	c, warnings, err := config.Load("warmroute.yaml")
//
// Secrets may be taken from the environment (${NAME}); nothing else may. They never
// leave the package in text: [Secret] prints as "(redacted)", and what
// [Config.String] shows of a backend's URL has no credentials.
//
// The package names no setting twice: ranges that the router, the registry and the
// transport define are checked by them, and only given their line here.
package config
