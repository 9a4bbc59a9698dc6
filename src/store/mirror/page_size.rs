//! The page size of balances that was proved.

use crate::store::{Result, Store, WriteTransaction};

impl Store {
    /// Returns the proved page size, if it was proved under the present configuration.
    pub(crate) async fn page_size(&self, configured: usize) -> Result<Option<usize>> {
        let sql = "SELECT size FROM page_size WHERE configured = $1";
        let values = (i64::try_from(configured).unwrap_or(i64::MAX),);
        let size: Option<i64> = self.fetch_column(sql, values, "read the page size").await?.pop();
        Ok(size.and_then(|size| usize::try_from(size).ok()))
    }
}

impl WriteTransaction {
    pub(crate) async fn page_size_store(&mut self, configured: usize, size: usize) -> Result<()> {
        let sql = "INSERT INTO page_size (id, configured, size) VALUES (1, $1, $2) \
                   ON CONFLICT (id) DO UPDATE SET configured = excluded.configured, size = excluded.size";
        let number = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        self.execute(sql, (number(configured), number(size)), "store the page size").await
    }
}
