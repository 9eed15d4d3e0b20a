// Package offline verifies images by Executors that stand in files, without a
// cluster.
//
// Executors are checked as lint checks them, get the defaults that the API
// server would give them, and are compiled and matched as a replica does. What
// they name is looked for among the Secrets and ConfigMaps in the same files,
// and in a folder.
package offline
