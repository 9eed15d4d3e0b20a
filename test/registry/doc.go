// Package registry is an OCI registry for tests: the real one of
// go-containerregistry, in process, that can be made to misbehave, counts what
// it is asked, and asks for the credentials it is told to ask for.
//
//	hub := registry.Start(t, registry.WithTLS(), registry.WithTokenAuth("robot", "hunter2"))
//	digest := hub.PushImage(t, "team/gateway", "1.0")
//	hub.Break(registry.Drip(time.Second))
//	hub.Heal()
//
// Pushing goes past faults, authentication and counting.
package registry
