//! The account a database belongs to (rules.md 21): its wishes and facts mean nothing in another one.
//!
//! Of the integration key, which names the company, only a salted hash is kept: enough to see that it is another one,
//! and nothing to find it by.

use super::error::Doing;
use super::{Store, StoreError, Write};
use sha2::{Digest, Sha256};
use sqlx::FromRow;

/// What a database knows of its account.
#[derive(Clone, Debug, FromRow)]
pub struct Belonging {
    /// Where it was spoken to; `None`: never yet.
    pub base_url: Option<String>,
    salt: Vec<u8>,
    key_digest: Option<Vec<u8>>,
}

impl Belonging {
    /// Whether nothing speaks against this address, and this key where one is used.
    pub fn fits(&self, base_url: &str, integration_key: Option<&str>) -> bool {
        let same_url = self.base_url.as_deref().is_none_or(|known| known == base_url);
        let same_key = match (&self.key_digest, integration_key) {
            (Some(known), Some(key)) => *known == self.digest(key),
            (None, _) | (_, None) => true,
        };
        same_url && same_key
    }

    /// The name of a machine in the database: a digest of its id, so that the id itself stands nowhere.
    pub fn host(&self, machine_id: &str) -> String {
        self.digest(machine_id).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    fn digest(&self, key: &str) -> Vec<u8> {
        Sha256::new().chain_update(&self.salt).chain_update(key.as_bytes()).finalize().to_vec()
    }
}

impl Store {
    /// What the database knows of its account.
    pub async fn belonging(&self) -> Result<Belonging, StoreError> {
        let sql = "SELECT base_url, salt, key_digest FROM account_binding";
        sqlx::query_as(sql).fetch_one(&mut *self.read().await?).await.doing("read whose database it is")
    }
}

impl Write {
    /// Notes whose database it is from now on. Where no key is used, what is known of one stays.
    pub async fn belonging_note(
        &mut self,
        belonging: &Belonging,
        base_url: &str,
        integration_key: Option<&str>,
    ) -> Result<(), StoreError> {
        let digest = integration_key.map(|key| belonging.digest(key));
        let sql = "UPDATE account_binding SET base_url = ?1, key_digest = coalesce(?2, key_digest)";
        let done = sqlx::query(sql).bind(base_url).bind(digest).execute(&mut *self.tx).await;
        done.map(drop).doing("note whose database it is")
    }
}
