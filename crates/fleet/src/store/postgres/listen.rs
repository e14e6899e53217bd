//! The latest revision, also when another process writes: told by PostgreSQL, and asked for now and then in case a word is
//! lost.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::{Notify, watch};
use tokio_postgres::AsyncMessage;

use super::address::Address;
use super::connection::{Connection, PATIENCE, store_error};
use super::{LISTEN, read};
use crate::store::{Revision, StoreError, advance};

/// How often to ask without having been told.
const POLL: Duration = Duration::from_secs(1);
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Keeps the latest revision up to date, for ever.
pub(super) async fn follow(address: Address, latest: watch::Sender<Revision>) {
    let mut wait = FIRST_WAIT;
    loop {
        let before = *latest.borrow();
        if let Err(error) = listen(&address, &latest).await {
            tracing::warn!(%error, "the feed of PostgreSQL is interrupted");
        }
        wait = if *latest.borrow() > before { FIRST_WAIT } else { (wait * 2).min(LONGEST_WAIT) };
        tokio::time::sleep(wait).await;
    }
}

/// Follows until the connection ends.
async fn listen(address: &Address, latest: &watch::Sender<Revision>) -> Result<(), StoreError> {
    let told = Arc::new(Notify::new());
    let connecting = tokio::time::timeout(PATIENCE, address.connect()).await;
    let (client, mut connection) = match connecting {
        Ok(connected) => connected?,
        Err(_) => return Err(StoreError::Unavailable(format!("no connection within {PATIENCE:?}"))),
    };
    let teller = Arc::clone(&told);
    let driving = async move {
        let mut messages = futures::stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(message) = messages.next().await {
            if let AsyncMessage::Notification(_) = message.map_err(store_error)? {
                teller.notify_one();
            }
        }
        Ok(())
    };
    let asking = async {
        let connection = Connection::set(client).await?;
        connection.run(&format!("LISTEN {LISTEN}")).await?;
        loop {
            advance(latest, read::revision(&connection).await?);
            let _late_or_told = tokio::time::timeout(POLL, told.notified()).await;
        }
    };
    tokio::select! {
        ended = driving => ended,
        failed = asking => failed,
    }
}
