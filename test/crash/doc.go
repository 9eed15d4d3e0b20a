// Package crash holds Gatehouse to C16: wherever it is killed, another replica that takes over reaches the state that
// an uninterrupted run reaches, and on the way there the budget is kept and no gateway is rolled twice.
//
// A scenario is what people do to a fleet. Each is run once without a crash, which says what state it ends in and how
// many writes of state it takes. Then it is run again for every one of these writes, twice: the manager is killed just
// before the write is passed on, and just after it was made, before the manager knows. A second manager is there, as a
// candidate for the lease, and takes over when that has ended. What is compared is everything that is stored of the
// fleet.
//
// Kubernetes is an API server alone; the tests play the Deployment controller, so a run is over in a second or two, and
// they watch the budget from the Deployments' own history. Several API servers take runs off one queue.
//
// `make crash` runs all points. A test run takes a sample by a seed; GATEHOUSE_CRASH names one point to run alone, as a
// failure prints it.
//
// The same stories are told, without a crash, to managers that see the fleet as it was a while ago, see each event twice
// or not at all, whose status writes arrive late, or of whom the leader is paused until another leads: the end is to be
// the same, nothing may be changed once more than without, and no status may ever say less than it has said. And of three
// replicas the leader is killed, stopped and paused again and again while people edit. `make fire` does all of it;
// GATEHOUSE_FIRE names one story and adversity.
package crash
