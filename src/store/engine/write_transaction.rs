//! Write transactions: begin, commit and rollback.

use super::connection::{Connection, TransactionGuard};
use super::error::SqlContext;
use super::leader::Fence;
use super::open::Store;
use super::position_file::PositionFile;
use crate::model::Position;
use crate::store::Result;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Survives a power cut, because it syncs (`synchronous=FULL`).
    Full,
    /// Survives the process (`synchronous=NORMAL`). A power cut may take the last commits, never the file.
    Normal,
}

/// Write transaction; dropping it without [`WriteTransaction::commit`] rolls it back.
#[derive(Debug)]
pub struct WriteTransaction {
    pub(in crate::store) tx: TransactionGuard,
    /// File for the position of a [`Durability::Full`] commit.
    position_file: Option<Arc<PositionFile>>,
    pub(super) fence: Arc<Fence>,
    /// Person who decides with this transaction; `None`: the daemon.
    pub(in crate::store) decider: Option<Arc<str>>,
}

impl Store {
    /// Waits for the writer and begins a write transaction, which must end before the next call.
    pub async fn begin_write(&self, durability: Durability) -> Result<WriteTransaction> {
        let writer = self.writer.acquire().await.context("begin a write transaction")?;
        let begun = TransactionGuard::begin(writer, durability, &self.fence).await;
        let tx = begun.context("begin a write transaction")?;
        let is_noted = durability == Durability::Full || self.is_shared();
        let position_file = self.position_file.clone().filter(|_| is_noted);
        let (fence, decider) = (Arc::clone(&self.fence), self.decider.clone());
        Ok(WriteTransaction { tx, position_file, fence, decider })
    }
}

impl WriteTransaction {
    pub(super) fn is_on_server(&self) -> bool {
        matches!(*self.tx, Connection::Postgres(_))
    }

    /// Allows pauses between statements. Otherwise a server ends the transaction after 10 s without one.
    ///
    /// A leader's heartbeat waits for the transaction, which therefore is one itself: a standby that waited
    /// for it does not take the lead.
    pub async fn allow_pauses(&mut self) -> Result<()> {
        const ACTION: &str = "allow pauses in a transaction";
        if !self.is_on_server() {
            return Ok(());
        }
        self.execute("SET LOCAL idle_in_transaction_session_timeout = 0", (), ACTION).await?;
        match self.leading_session() {
            Some(_) => {
                self.execute("UPDATE journal_sequence SET heartbeat = heartbeat + 1", (), ACTION).await
            }
            None => Ok(()),
        }
    }

    pub async fn commit(self) -> Result<()> {
        let committed = self.tx.commit(self.position_file.is_some()).await.context("commit")?;
        if let Some(position) = committed.map(Position) {
            self.fence.note(position);
            if let Some(file) = self.position_file {
                file.write_position(position);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::open::tests::open_new;

    #[tokio::test]
    async fn the_position_beside_the_database_is_that_of_the_last_synced_commit() {
        let (_dir, store) = open_new().await;
        let file = store.position_file.clone().unwrap();
        for (durability, noted) in [(Durability::Full, 1), (Durability::Normal, 1), (Durability::Full, 3)] {
            let mut write = store.begin_write(durability).await.unwrap();
            write.position_next().await.unwrap();
            write.commit().await.unwrap();
            assert_eq!(file.read_position(), Some(Position(noted)));
        }
        let mut dropped = store.begin_write(Durability::Full).await.unwrap();
        dropped.position_next().await.unwrap();
        drop(dropped);
        assert_eq!(file.read_position(), Some(Position(3)), "an uncommitted position is not noted");
    }

    #[tokio::test]
    async fn an_uncommitted_transaction_is_rolled_back_before_the_next_write() {
        let (_dir, store) = open_new().await;
        let beside = Store::open_beside(store.path()).await.unwrap();
        let mut dropped = store.begin_write(Durability::Full).await.unwrap();
        dropped.position_next().await.unwrap();
        drop(dropped);
        let mut next = store.begin_write(Durability::Normal).await.unwrap();
        assert_eq!(next.position_next().await.unwrap(), Position(1));
        drop(next);
        let mut next = beside.begin_write(Durability::Full).await.unwrap();
        assert_eq!(next.position_next().await.unwrap(), Position(1));
    }
}
