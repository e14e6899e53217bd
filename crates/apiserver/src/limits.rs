//! How much is worked on at the same time. Requests that find no room wait for their turn, which goes round by user, so
//! that one who asks for everything does not starve the others; whoever waits too long, or has too many waiting, is told
//! to come back.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::identity::{Identity, MASTERS};
use crate::status::{Answer, Refusal};

/// Kubernetes' own numbers.
const READS: usize = 400;
const WRITES: usize = 200;
/// How many requests of one user, and of all, may wait.
const WAITING_OF_USER: usize = 200;
const WAITING: usize = 4_000;
const PATIENCE: Duration = Duration::from_secs(15);
const WATCHES: usize = 20_000;
const WATCHES_OF_USER: usize = 1_000;

/// What a request costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    Read,
    Write,
    /// It stays for long, and does little.
    Watch,
}

impl Cost {
    /// What a verb costs.
    pub(crate) fn of(verb: &str) -> Self {
        match verb {
            "watch" => Self::Watch,
            "get" | "list" => Self::Read,
            _ => Self::Write,
        }
    }
}

/// The limits of a server.
pub(crate) struct Limits {
    reads: Fair,
    writes: Fair,
    watches: Arc<Mutex<HashMap<String, usize>>>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { reads: Fair::new(READS), writes: Fair::new(WRITES), watches: Arc::default() }
    }
}

/// Room for one request, for as long as it is held.
pub(crate) enum Room {
    Turn {
        _turn: Turn,
    },
    Watch {
        _watch: Watch,
    },
    /// For those whom nothing restrains.
    Unlimited,
}

impl Limits {
    /// Room for a request of somebody.
    pub(crate) async fn enter(&self, cluster: &str, identity: &Identity, cost: Cost) -> Answer<Room> {
        // Whoever repairs an overloaded server must get in.
        if identity.groups.iter().any(|group| group == MASTERS) {
            return Ok(Room::Unlimited);
        }
        // Users of one name in different logical clusters are different users.
        let user = format!("{cluster}/{}", identity.user);
        match cost {
            Cost::Read => self.reads.enter(&user).await,
            Cost::Write => self.writes.enter(&user).await,
            Cost::Watch => self.watch(&user),
        }
    }

    /// How many requests are worked on: reads, writes and watches.
    pub(crate) fn busy(&self) -> [(Cost, usize); 3] {
        let watches = self.watches.lock().values().sum();
        [(Cost::Read, self.reads.busy()), (Cost::Write, self.writes.busy()), (Cost::Watch, watches)]
    }

    fn watch(&self, user: &str) -> Answer<Room> {
        let mut open = self.watches.lock();
        let all: usize = open.values().sum();
        if open.get(user).is_some_and(|own| *own >= WATCHES_OF_USER) || all >= WATCHES {
            return Err(Refusal::too_many_requests());
        }
        *open.entry(user.to_owned()).or_default() += 1;
        Ok(Room::Watch { _watch: Watch { open: self.watches.clone(), user: user.to_owned() } })
    }
}

/// A watch that is open.
pub(crate) struct Watch {
    open: Arc<Mutex<HashMap<String, usize>>>,
    user: String,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        if let Some(own) = open.get_mut(&self.user) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                open.remove(&self.user);
            }
        }
    }
}

/// A number of places, given out in turn; one user never has more than half of them.
struct Fair {
    size: usize,
    state: Arc<Mutex<State>>,
}

struct State {
    free: usize,
    /// How many places one user may have.
    most: usize,
    held: HashMap<String, usize>,
    waiting: usize,
    /// Whose turn is next, and their requests in the order in which they came.
    users: VecDeque<(String, VecDeque<oneshot::Sender<Turn>>)>,
}

impl Fair {
    fn new(size: usize) -> Self {
        let state = State {
            free: size,
            most: size.div_ceil(2),
            held: HashMap::new(),
            waiting: 0,
            users: VecDeque::new(),
        };
        Self { size, state: Arc::new(Mutex::new(state)) }
    }

    fn busy(&self) -> usize {
        self.size.saturating_sub(self.state.lock().free)
    }

    async fn enter(&self, user: &str) -> Answer<Room> {
        let waiting = {
            let mut state = self.state.lock();
            if state.has_room_for(user) {
                state.take(user);
                return Ok(Room::Turn { _turn: Turn::new(&self.state, user) });
            }
            state.queue(user).ok_or_else(Refusal::too_many_requests)?
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(Ok(turn)) => Ok(Room::Turn { _turn: turn }),
            _ => Err(Refusal::too_many_requests()),
        }
    }
}

impl State {
    fn has_room_for(&self, user: &str) -> bool {
        self.free > 0 && self.held.get(user).is_none_or(|held| *held < self.most)
    }

    fn take(&mut self, user: &str) {
        self.free -= 1;
        *self.held.entry(user.to_owned()).or_default() += 1;
    }

    fn give_back(&mut self, user: &str) {
        self.free += 1;
        if let Some(held) = self.held.get_mut(user) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                self.held.remove(user);
            }
        }
    }

    fn queue(&mut self, user: &str) -> Option<oneshot::Receiver<Turn>> {
        if self.waiting >= WAITING {
            return None;
        }
        let at = self.users.iter().position(|(name, _)| name == user);
        let at = at.unwrap_or_else(|| {
            self.users.push_back((user.to_owned(), VecDeque::new()));
            self.users.len() - 1
        });
        let (_, requests) = self.users.get_mut(at)?;
        // Those who gave up do not count.
        let before = requests.len();
        requests.retain(|request| !request.is_closed());
        self.waiting = self.waiting.saturating_sub(before - requests.len());
        if requests.len() >= WAITING_OF_USER {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        requests.push_back(sender);
        self.waiting += 1;
        Some(receiver)
    }

    /// The request whose turn it is, of those that there is room for.
    fn next(&mut self) -> Option<(String, oneshot::Sender<Turn>)> {
        loop {
            let at = self.users.iter().position(|(user, _)| self.has_room_for(user))?;
            let (user, mut requests) = self.users.remove(at)?;
            let request = requests.pop_front();
            if !requests.is_empty() {
                self.users.push_back((user.clone(), requests));
            }
            if let Some(request) = request {
                self.waiting = self.waiting.saturating_sub(1);
                return Some((user, request));
            }
        }
    }
}

/// A place that somebody has; it goes to whoever is next.
pub(crate) struct Turn {
    /// Nothing, once the place was given back.
    state: Option<Arc<Mutex<State>>>,
    user: String,
}

impl Turn {
    fn new(state: &Arc<Mutex<State>>, user: &str) -> Self {
        Self { state: Some(state.clone()), user: user.to_owned() }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(shared) = self.state.take() else { return };
        shared.lock().give_back(&self.user);
        loop {
            let next = {
                let mut state = shared.lock();
                let next = state.next();
                if let Some((user, _)) = &next {
                    state.take(user);
                }
                next
            };
            let Some((user, request)) = next else { return };
            if let Err(mut refused) = request.send(Turn::new(&shared, &user)) {
                // Nobody waits there any more: the place goes to the next one.
                refused.state = None;
                shared.lock().give_back(&user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    async fn entered(fair: &Fair, user: &str) -> Room {
        fair.enter(user).await.unwrap_or_else(|_| panic!("{user} gets in"))
    }

    #[tokio::test(start_paused = true)]
    async fn turns_go_round_by_user() {
        let fair = Fair::new(1);
        let held = entered(&fair, "greedy").await;
        let mut greedy: Vec<_> = (0..3).map(|_| Box::pin(fair.enter("greedy"))).collect();
        for request in &mut greedy {
            assert!(request.as_mut().now_or_never().is_none());
        }
        let mut modest = Box::pin(fair.enter("modest"));
        assert!(modest.as_mut().now_or_never().is_none());
        drop(held);
        let first = greedy.remove(0).await.ok().unwrap();
        drop(first);
        // The second of the greedy one came before, but has had a turn.
        let second = modest.now_or_never().unwrap().ok().unwrap();
        assert!(greedy[0].as_mut().now_or_never().is_none());
        drop(second);
        assert!(greedy.remove(0).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn one_user_never_has_more_than_half_of_the_places() {
        let fair = Fair::new(4);
        let _held = [entered(&fair, "greedy").await, entered(&fair, "greedy").await];
        let mut third = Box::pin(fair.enter("greedy"));
        assert!(third.as_mut().now_or_never().is_none());
        let modest = entered(&fair, "modest").await;
        drop(modest);
        assert!(third.as_mut().now_or_never().is_none());
        assert_eq!(fair.busy(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_too_long_or_has_too_many_waiting_is_told_to_come_back() {
        let fair = Fair::new(1);
        let held = entered(&fair, "a").await;
        assert_eq!(fair.enter("b").await.err().unwrap().code(), 429);
        let mut waiting = Vec::new();
        for _ in 0..WAITING_OF_USER {
            let mut request = Box::pin(fair.enter("b"));
            assert!(request.as_mut().now_or_never().is_none());
            waiting.push(request);
        }
        assert_eq!(fair.enter("b").now_or_never().unwrap().err().unwrap().code(), 429);
        // Those who gave up hold no place, neither in the queue nor later.
        drop(waiting);
        drop(held);
        assert_eq!(fair.busy(), 0);
        drop(entered(&fair, "b").await);
    }

    #[tokio::test]
    async fn watches_are_counted_by_user() {
        let limits = Limits::default();
        let eve = Identity::user("eve");
        let mut open = Vec::new();
        for _ in 0..WATCHES_OF_USER {
            open.push(limits.enter("hub", &eve, Cost::Watch).await.ok().unwrap());
        }
        assert_eq!(limits.enter("hub", &eve, Cost::Watch).await.err().unwrap().code(), 429);
        assert!(limits.enter("hub", &Identity::user("adam"), Cost::Watch).await.is_ok());
        assert!(limits.enter("hub", &Identity::master("root"), Cost::Watch).await.is_ok());
        assert!(limits.enter("spoke-1", &eve, Cost::Watch).await.is_ok());
        open.pop();
        assert!(limits.enter("hub", &eve, Cost::Watch).await.is_ok());
    }
}
