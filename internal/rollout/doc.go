// Package rollout moves the gateways of a release onto its accepted revision, a window at a time, and says what each
// gateway may take. It is pure: values and a clock in, values out. It reads no API and starts nothing.
//
// Two parties act on the same stored state, each through a cache that may be behind, and neither waits for the other:
//
//   - The planner (Next, run for a release) reads the release and its fleet, and writes status.rollout of the release:
//     the target, the attempt, the stable revision, and the window. Its write is conditional on the version of the
//     release that it read.
//   - Each gateway (Decide, run for a gateway) reads status.rollout and its own status, and records in its own status the
//     revision and attempt it was given, before it applies anything. Its write is conditional on the version of the
//     gateway that it read.
//
// What makes this safe is that no permission is ever taken back on a guess:
//
//   - A gateway takes the target only if the window names it and the entry's attempt is newer than the one it has
//     recorded. An attempt has one target and never repeats. So an old status.rollout can give a gateway nothing that it
//     had already, and nothing that was not granted.
//   - An entry leaves the window only when its gateway has reported that attempt and has converged or failed, or is gone.
//     A gateway that is silent may be about to move: it holds its slot.
//   - A gateway whose own namespace cannot judge the target reports the attempt without the target when progressDeadline
//     has passed since its admission (Deadline): so one tenant's mistake holds no slot for ever. It is barred until its
//     namespace can tell.
//   - An entry that uses no budget is for a gateway that has nothing to lose: one that serves by the time it would move
//     does not take what it gives, and the planner that sees it serve takes the entry out and lines it up with those that
//     use the budget. Should it be down again before it hears of that, it may still use the old permission: then, as when
//     that was given, it costs nobody anything.
//   - A new target in mid-rollout raises the attempt of every entry and leaves the entries where they are.
//   - An entry names the gateway's generation, and is void for a later one: a gateway that left for another release and
//     came back does not find the grant that it was given before it left. The planner that sees a later generation in
//     the window, not reported, takes the entry out and lines the gateway up again as what it is by then.
//   - What does not verify is withheld by name, and takes nobody out of the window: the gateway may have taken it on an
//     older status. One that reads the name takes nothing.
//   - fleetVersion in the status says how fresh the view of the fleet was from which it was made. A planner whose cache
//     is behind that (a new leader, or an old one that was paused) decides nothing until it has caught up: to it, a
//     gateway not met yet looks gone, and one that failed looks untouched.
//
// A gateway's place in a rollout is read from its record, not remembered:
//
//	on the target, in the window          under way
//	on the target, outside, converged     done
//	on the target, outside, not converged failed, if an attempt of this rollout gave it the target and it had something
//	                                      to lose (wasReady) or is new (install); otherwise alreadyUnready
//	elsewhere, attempt > stableAttempt    moved by an attempt of this rollout that did not complete: wasReady and install
//	                                      are carried from its record
//	elsewhere, or of another release      a candidate, judged by whether it is Ready or serves now
//	barred by its namespace or profile    no candidate until it is not: named, and not said to run the target
//	no record                             new: it takes the stable revision by itself, or waits for the window; where the
//	                                      stable revision is withheld it may have taken it, and is moved as if it had
//
// "This rollout" is everything since stableAttempt, the attempt that completed last. An attempt that has completed stays
// so; a gateway that joins later starts a new attempt, so that nobody is judged twice.
//
// What the planner relies on, and package gateway keeps: a record of another revision name is written together with a
// Ready condition that is not True; a gateway records what it was given before anything else can fail, so that one that
// cannot be rendered reports so and does not hold the window for ever; and one that has nothing recorded and nothing
// running says so by a status of its current generation; and one that declines what the window gives, because it serves,
// has a status by the end of that pass from which the planner reads that it does (Member).
package rollout
