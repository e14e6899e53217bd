//! Tracks the latest revision, also when another process writes: by LISTEN, and by polling in case a notification is lost.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::{Notify, watch};
use tokio_postgres::AsyncMessage;

use super::address::Address;
use super::connection::{CONNECT_TIMEOUT, Connection, store_error};
use super::{LISTEN, read};
use crate::store::{Revision, StoreError, advance};

/// The interval of polls without a notification.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);

/// Updates the latest revision until the task is dropped.
pub(super) async fn follow(address: Address, latest: watch::Sender<Revision>) {
    let mut wait = FIRST_RETRY_DELAY;
    loop {
        let before = *latest.borrow();
        if let Err(error) = listen(&address, &latest).await {
            tracing::warn!(%error, "the connection for change notifications of PostgreSQL was lost; reconnecting");
        }
        wait = if *latest.borrow() > before { FIRST_RETRY_DELAY } else { (wait * 2).min(MAX_RETRY_DELAY) };
        tokio::time::sleep(wait).await;
    }
}

/// Listens until the connection ends.
async fn listen(address: &Address, latest: &watch::Sender<Revision>) -> Result<(), StoreError> {
    let notified = Arc::new(Notify::new());
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, address.connect()).await;
    let (client, mut connection) = match connecting {
        Ok(connected) => connected?,
        Err(_) => return Err(StoreError::Unavailable(format!("no connection within {CONNECT_TIMEOUT:?}"))),
    };
    let notifier = Arc::clone(&notified);
    let driving = async move {
        let mut messages = futures::stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(message) = messages.next().await {
            if let AsyncMessage::Notification(_) = message.map_err(store_error)? {
                notifier.notify_one();
            }
        }
        Ok(())
    };
    let polling = async {
        let connection = Connection::set(client).await?;
        connection.run(&format!("LISTEN {LISTEN}")).await?;
        loop {
            advance(latest, read::revision(&connection).await?);
            let _timed_out_or_notified = tokio::time::timeout(POLL_INTERVAL, notified.notified()).await;
        }
    };
    tokio::select! {
        ended = driving => ended,
        failed = polling => failed,
    }
}
