//! A client that reads its credentials again when their files change, or when the server no longer accepts them. A process then
//! keeps running through a rotation of certificates or tokens.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::http::{Request, StatusCode};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How often the files are looked at, at most.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the files are read again because of failed requests, at most.
const FORCED_RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// A client, and the files that its address and credentials come from.
pub struct Loaded {
    /// The client.
    pub client: Client,
    /// The files.
    pub files: Vec<PathBuf>,
}

/// A client that `load` loads now, and again when one of its files changes, or after a request was not authorized or not
/// answered. If loading again fails, the client from before is used, and loading is tried again.
pub async fn reloading<E, F, L>(load: L) -> Result<Client, E>
where
    E: Display + Send + 'static,
    F: Future<Output = Result<Loaded, E>> + Send + 'static,
    L: Fn() -> F + Send + Sync + 'static,
{
    let loaded = load().await?;
    let namespace = loaded.client.default_namespace().to_owned();
    let reloader = Arc::new(Reloader { state: Mutex::new(State::new(loaded)), load });
    let service = tower::service_fn(move |request: Request<Body>| {
        let reloader = reloader.clone();
        async move {
            let client = reloader.client().await;
            let response = client.send(request).await;
            reloader.observe(&response);
            response
        }
    });
    Ok(Client::new(service, namespace))
}

/// When each file was last changed, and its length.
type Fingerprint = Vec<Option<(SystemTime, u64)>>;

struct State {
    client: Client,
    files: Vec<PathBuf>,
    fingerprint: Fingerprint,
    checked: Instant,
    loaded: Instant,
    /// A request failed in a way that other credentials or another address may mend.
    is_suspect: bool,
}

impl State {
    fn new(loaded: Loaded) -> Self {
        let fingerprint = fingerprint(&loaded.files);
        let now = Instant::now();
        Self {
            client: loaded.client,
            files: loaded.files,
            fingerprint,
            checked: now,
            loaded: now,
            is_suspect: false,
        }
    }

    /// Whether to load again now. It is true for only one of several concurrent callers.
    fn take_reload(&mut self, now: Instant) -> bool {
        if now.duration_since(self.checked) < CHECK_INTERVAL {
            return false;
        }
        self.checked = now;
        let is_forced = self.is_suspect && now.duration_since(self.loaded) >= FORCED_RELOAD_INTERVAL;
        is_forced || fingerprint(&self.files) != self.fingerprint
    }
}

struct Reloader<L> {
    state: Mutex<State>,
    load: L,
}

impl<E, F, L> Reloader<L>
where
    E: Display,
    F: Future<Output = Result<Loaded, E>>,
    L: Fn() -> F,
{
    async fn client(&self) -> Client {
        if self.state.lock().take_reload(Instant::now()) {
            match (self.load)().await {
                Ok(loaded) => {
                    *self.state.lock() = State::new(loaded);
                    tracing::info!("read the credentials again");
                }
                Err(error) => {
                    tracing::warn!("cannot read the credentials again; using the previous ones: {error}")
                }
            }
        }
        self.state.lock().client.clone()
    }

    fn observe<B>(&self, response: &Result<axum::http::Response<B>, kube::Error>) {
        let is_suspect = match response {
            Ok(response) => matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN),
            Err(_) => true,
        };
        self.state.lock().is_suspect = is_suspect;
    }
}

fn fingerprint(files: &[PathBuf]) -> Fingerprint {
    let of = |file: &PathBuf| {
        let metadata = std::fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use axum::http::Response;

    use super::*;

    /// A client of a server that answers with the status in the file, which stands for a credential.
    fn load(
        file: PathBuf,
        is_broken: Arc<AtomicBool>,
    ) -> impl Fn() -> std::future::Ready<Result<Loaded, String>> {
        move || {
            if is_broken.load(Ordering::Relaxed) {
                return std::future::ready(Err("half written".to_owned()));
            }
            let status: u16 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
            let service = tower::service_fn(move |_: Request<Body>| async move {
                Ok::<_, kube::Error>(Response::builder().status(status).body(Body::empty()).unwrap())
            });
            std::future::ready(Ok(Loaded { client: Client::new(service, "ns"), files: vec![file.clone()] }))
        }
    }

    async fn status(client: &Client) -> u16 {
        let request = Request::get("/").body(Body::empty()).unwrap();
        client.send(request).await.unwrap().status().as_u16()
    }

    #[tokio::test(start_paused = true)]
    async fn changed_file_is_read_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "200").unwrap();
        let broken = Arc::new(AtomicBool::new(false));
        let client = reloading(load(file.path().to_owned(), broken.clone())).await.unwrap();
        assert_eq!(client.default_namespace(), "ns");
        assert_eq!(status(&client).await, 200);
        std::fs::write(&file, "0201").unwrap();
        assert_eq!(status(&client).await, 200, "files are not looked at for each request");
        tokio::time::advance(CHECK_INTERVAL).await;
        broken.store(true, Ordering::Relaxed);
        assert_eq!(status(&client).await, 200, "a file that cannot be read changes nothing");
        tokio::time::advance(CHECK_INTERVAL).await;
        broken.store(false, Ordering::Relaxed);
        assert_eq!(status(&client).await, 201);
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_credentials_are_read_again_although_their_file_looks_the_same() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "401").unwrap();
        let client = reloading(load(file.path().to_owned(), Arc::default())).await.unwrap();
        let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
        assert_eq!(status(&client).await, 401);
        std::fs::write(&file, "200").unwrap();
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
        tokio::time::advance(CHECK_INTERVAL).await;
        assert_eq!(status(&client).await, 401, "not read again too often");
        tokio::time::advance(FORCED_RELOAD_INTERVAL).await;
        assert_eq!(status(&client).await, 200);
    }
}
