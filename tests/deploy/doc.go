// Package deploy tests what deploy holds against what it is for: manifests are decoded into
// the types of the Kubernetes API, strictly; the unit of systemd, the Dockerfile and the
// Compose file are read; the configurations in them are checked by the program itself, their
// commands run, and what they say of each other (ports, names, graces, limits) is compared.
// What cannot be tried here is what a cluster, a Docker engine and systemd make of them.
package deploy
