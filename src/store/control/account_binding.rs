//! Account binding of a database (docs/rules.md 13): its changes and facts are invalid in another account.
//!
//! The integration key names the account. Only its salted hash is stored, which shows a different
//! key but does not reveal it.

use crate::store::{Result, Store, WriteTransaction};
use sha2::{Digest, Sha256};
use sqlx_macros::FromRow;

#[derive(Clone, Debug, FromRow)]
pub struct AccountBinding {
    /// Base URL of the platform; `None`: never used.
    pub base_url: Option<String>,
    pub(in crate::store) salt: Vec<u8>,
    key_digest: Option<Vec<u8>>,
}

impl AccountBinding {
    /// Returns true if neither this address nor this key contradicts the binding.
    pub(crate) fn is_compatible(&self, base_url: &str, integration_key: Option<&str>) -> bool {
        let same_url = self.base_url.as_deref().is_none_or(|known| known == base_url);
        let same_key = match (&self.key_digest, integration_key) {
            (Some(known), Some(key)) => *known == self.salted_digest(key),
            (None, _) | (_, None) => true,
        };
        same_url && same_key
    }

    /// Returns the name of a machine in the database: a digest, so that the machine's id is not stored.
    pub(crate) fn host_digest(&self, machine_id: &str) -> String {
        self.salted_digest(machine_id).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns a name of the database: random, the same for ever, and shared with its backups.
    pub fn database_name(&self) -> String {
        self.host_digest("")
    }

    fn salted_digest(&self, key: &str) -> Vec<u8> {
        Sha256::new().chain_update(&self.salt).chain_update(key.as_bytes()).finalize().to_vec()
    }
}

impl Store {
    pub async fn account_binding(&self) -> Result<AccountBinding> {
        let sql = "SELECT base_url, salt, key_digest FROM account_binding";
        self.fetch_one(sql, (), "read the account binding").await
    }
}

impl WriteTransaction {
    /// Stores the account binding; without a key the stored one stays.
    pub(crate) async fn account_binding_store(
        &mut self,
        binding: &AccountBinding,
        base_url: &str,
        integration_key: Option<&str>,
    ) -> Result<()> {
        let digest = integration_key.map(|key| binding.salted_digest(key));
        let sql = "UPDATE account_binding SET base_url = $1, key_digest = coalesce($2, key_digest)";
        self.execute(sql, (base_url, digest), "store the account binding").await
    }
}
