//! Rows for the page: pages of stock, changes and exchanges.
//!
//! Each statement reads a bounded number of rows by an index, so that the last page of a million SKUs costs as much
//! as the first. Pages follow each other by a key, not by a count.

use crate::model::{OrderId, case_key};
use crate::store::engine::lossy_text::LossyText;
use crate::store::journal::run::exchange_rows;
use crate::store::{ExchangeRow, Result, Store};
use sqlx::AssertSqlSafe;
use sqlx_macros::FromRow;

/// Largest number of rows of a page.
pub(crate) const PAGE_ROWS: i64 = 100;
/// Largest number of products that one page of a search looks at.
const SEARCHED_MAX: i64 = 10_000;
/// Number of journal positions that one page of a search looks at; an exchange has two.
const SEARCHED_POSITIONS: i64 = 40_000;
/// After every case key, and the largest character of each collation.
const LAST_CHARACTER: char = '\u{10ffff}';

/// State by which stock is filtered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StockSelection {
    #[default]
    All,
    Pending,
    /// SKUs with a change that waits for a decision about a quantity.
    Conflict,
    /// SKUs that the platform does not return.
    Missing,
    /// SKUs with a stock level at or below a quantity.
    Low(i64),
}

/// Filter of a page of stock.
#[derive(Clone, Debug, Default)]
pub(crate) struct StockFilter {
    /// Beginning of the SKU, in any case.
    pub prefix: String,
    /// Part of the name, in any case of ASCII letters.
    pub name_part: Option<String>,
    pub warehouse: Option<i64>,
    pub selection: StockSelection,
    pub after: String,
}

/// SKU of a page of stock.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct StockPageRow {
    /// Cursor of the page that follows this row.
    pub cursor: LossyText,
    /// SKU, in the platform's spelling where that is known.
    pub sku: LossyText,
    pub name: Option<String>,
    /// Time since which the platform does not return it.
    pub missing_ms: Option<i64>,
}

#[derive(Clone, Debug)]
pub(crate) struct StockPage {
    pub rows: Vec<StockPageRow>,
    /// Cursor of the next page; `None`: this is the last one.
    pub next: Option<String>,
}

/// Filter of a page of exchanges.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExchangeFilter {
    /// Operation, as the interface lists it.
    pub operation: Option<String>,
    pub verdict: Option<String>,
    /// SKU whose facts or changes the exchange carried.
    pub sku: Option<String>,
    /// Position before which the page begins.
    pub before: Option<i64>,
}

impl Store {
    /// Returns position, newest change and newest run, to notice that something changed.
    pub(crate) async fn change_mark(&self) -> Result<(i64, i64, i64)> {
        let sql = "SELECT (SELECT position FROM journal_sequence), \
                          coalesce((SELECT max(id) FROM outbox), 0), coalesce((SELECT max(id) FROM run), 0)";
        self.fetch_one(sql, (), "read the state of the database").await
    }

    /// Returns a page of SKUs. A search that finds little ends after [`SEARCHED_MAX`] products, with a cursor.
    pub(crate) async fn stock_page(&self, filter: &StockFilter) -> Result<StockPage> {
        let is_changed = matches!(filter.selection, StockSelection::Pending | StockSelection::Conflict);
        let mut rows = match is_changed {
            true => self.changed_stock_page(filter).await?,
            false => self.product_stock_page(filter).await?,
        };
        if cut_to_page(&mut rows) {
            let next = rows.last().map(|row| row.cursor.to_string());
            return Ok(StockPage { rows, next });
        }
        let is_search = filter.name_part.is_some()
            || filter.warehouse.is_some()
            || matches!(filter.selection, StockSelection::Low(_));
        let next = if is_search && !is_changed { self.stock_search_end(filter).await? } else { None };
        Ok(StockPage { rows, next })
    }

    async fn product_stock_page(&self, filter: &StockFilter) -> Result<Vec<StockPageRow>> {
        let (from, after, to) = scan_range(filter);
        let name = filter.name_part.as_deref().map(|part| format!("%{}%", like_text(part)));
        let low = match filter.selection {
            StockSelection::Low(quantity) => Some(quantity),
            _ => None,
        };
        let is_search = name.is_some() || low.is_some() || filter.warehouse.is_some();
        let scanned = if is_search { SEARCHED_MAX } else { PAGE_ROWS + 1 };
        let values = (from, after, to, scanned, filter.warehouse, name, low, PAGE_ROWS + 1);
        let condition = match filter.selection {
            StockSelection::Missing => "p.missing_since_ms IS NOT NULL",
            _ => "TRUE",
        };
        // The products by case key after values 1 and 2, before value 3; at most value 4 of them are looked at.
        let sql = format!(
            "WITH scanned AS (SELECT p.id, p.sku, p.case_key, p.name, p.missing_since_ms FROM product p \
                     WHERE p.case_key >= $1 AND (p.case_key > $1 OR p.sku > $2) AND p.case_key < $3 \
                       AND p.alias_of IS NULL AND {condition} \
                 ORDER BY p.case_key, p.sku LIMIT CAST($4 AS BIGINT)) SELECT s.sku AS cursor, s.sku, s.name, s.missing_since_ms AS missing_ms FROM scanned s \
                 WHERE (CAST($6 AS TEXT) IS NULL OR lower(s.name) LIKE $6 ESCAPE '!') \
                   AND ((CAST($5 AS BIGINT) IS NULL AND CAST($7 AS BIGINT) IS NULL) OR EXISTS ( \
                       SELECT 1 FROM linked_balance b WHERE b.product = s.id \
                         AND b.warehouse_id = coalesce($5, b.warehouse_id) AND b.quantity <= coalesce($7, b.quantity))) \
                 ORDER BY s.case_key, s.sku LIMIT CAST($8 AS BIGINT)"
        );
        self.fetch_all(AssertSqlSafe(sql), values, "read a page of stock").await
    }

    /// Returns the cursor behind the products that a search looked at; `None`: it looked at all.
    async fn stock_search_end(&self, filter: &StockFilter) -> Result<Option<String>> {
        let sql = "SELECT p.sku FROM product p \
                   WHERE p.case_key >= $1 AND (p.case_key > $1 OR p.sku > $2) AND p.case_key < $3 AND p.alias_of IS NULL \
                   ORDER BY p.case_key, p.sku LIMIT 1 OFFSET CAST($4 AS BIGINT)";
        let (from, after, to) = scan_range(filter);
        let values = (from, after, to, SEARCHED_MAX - 1);
        let end: Option<(String,)> = self.fetch_optional(sql, values, "find the end of a search").await?;
        Ok(end.map(|(sku,)| sku))
    }

    async fn changed_stock_page(&self, filter: &StockFilter) -> Result<Vec<StockPageRow>> {
        let prefix = format!("{}%", like_text(&case_key(&filter.prefix)));
        let values = (&filter.after, prefix, filter.warehouse, PAGE_ROWS + 1);
        let changes = match filter.selection {
            StockSelection::Conflict => {
                "SELECT spelling FROM ( \
                     SELECT o.sku AS spelling, o.warehouse_id FROM outbox o \
                     WHERE o.state IN ('sending', 'held', 'in_doubt') AND o.state = 'held' AND o.sku IS NOT NULL \
                       AND o.reason IN ('conflict', 'mismatch', 'stale_base') \
                     UNION ALL SELECT p.sku, m.warehouse_id FROM mismatch m JOIN product p ON p.id = m.product) d \
                 WHERE spelling > $1 AND lower(spelling) LIKE $2 ESCAPE '!' \
                   AND warehouse_id = coalesce(CAST($3 AS BIGINT), warehouse_id) \
                 GROUP BY spelling ORDER BY spelling LIMIT CAST($4 AS BIGINT)"
            }
            _ => {
                "SELECT o.sku AS spelling FROM outbox o \
             WHERE o.state IN ('pending', 'sending', 'held', 'in_doubt') AND o.sku IS NOT NULL AND o.sku > $1 \
               AND o.state IN ('pending', 'sending') AND lower(o.sku) LIKE $2 ESCAPE '!' \
               AND o.warehouse_id = coalesce(CAST($3 AS BIGINT), o.warehouse_id) \
             GROUP BY o.sku ORDER BY o.sku LIMIT CAST($4 AS BIGINT)"
            }
        };
        let sql = format!(
            "SELECT c.spelling AS cursor, \
                        coalesce(m.sku, c.spelling) AS sku, p.name, p.missing_since_ms AS missing_ms \
                 FROM ({changes}) c LEFT JOIN sku_spelling m ON m.spelling = c.spelling \
                 LEFT JOIN product p ON p.id = m.product ORDER BY c.spelling"
        );
        self.fetch_all(AssertSqlSafe(sql), values, "read the SKUs of changes").await
    }

    /// Returns a page of exchanges, newest first, and the position before which the next page begins.
    pub(crate) async fn exchange_page(
        &self,
        filter: &ExchangeFilter,
    ) -> Result<(Vec<ExchangeRow>, Option<i64>)> {
        let newest = self.journal_position().await?.0.saturating_add(1);
        let before = filter.before.unwrap_or(newest).min(newest);
        let is_searched = match filter.sku {
            Some(_) => {
                "e.id IN (SELECT t.exchange_id FROM outbox o JOIN change_transition t ON t.change_id = o.id \
                          WHERE o.sku = $5 AND t.exchange_id IS NOT NULL \
                          UNION SELECT b.fact_exchange_id FROM product p JOIN balance b ON b.product = p.id \
                          WHERE p.sku = $5 \
                          UNION SELECT r.exchange_id FROM product p JOIN read_batch r ON r.id = p.read_batch_id \
                          WHERE p.sku = $5 \
                          UNION SELECT x.id FROM product p JOIN balance_history h ON h.product = p.id \
                              JOIN exchange x ON x.ended = h.position WHERE p.sku = $5)"
            }
            None => "e.id >= $6",
        };
        let sql = format!(
            "{} WHERE e.id < $1 AND e.operation = coalesce(CAST($2 AS TEXT), e.operation) \
               AND coalesce(e.verdict, '') = coalesce(CAST($3 AS TEXT), e.verdict, '') AND {is_searched} \
             ORDER BY e.id DESC LIMIT CAST($4 AS BIGINT)",
            exchange_rows!()
        );
        let from = before.saturating_sub(SEARCHED_POSITIONS);
        let values = (before, &filter.operation, &filter.verdict, PAGE_ROWS + 1, &filter.sku, from);
        let mut rows: Vec<ExchangeRow> =
            self.fetch_all(AssertSqlSafe(sql), values, "read a page of exchanges").await?;
        let next = match cut_to_page(&mut rows) {
            true => rows.last().map(|row| row.id),
            false => Some(from).filter(|next| filter.sku.is_none() && *next > 1),
        };
        Ok((rows, next))
    }

    /// Returns the units that are left to pick, by warehouse and its name, of the open orders. What a
    /// supplier ships is not among them.
    pub(crate) async fn units_to_pick(&self) -> Result<Vec<(Option<i64>, Option<String>, i64, i64)>> {
        let sql = "SELECT l.warehouse_id, w.name, count(*) AS lines, CAST(sum(l.quantity_left) AS BIGINT) AS units \
                   FROM sales_order o JOIN order_line_item l ON l.order_id = o.id \
                   LEFT JOIN warehouse w ON w.id = l.warehouse_id \
                   WHERE o.closed_ms IS NULL AND l.missing_since_ms IS NULL AND l.quantity_left > 0 \
                     AND l.supplier_id IS NULL \
                   GROUP BY l.warehouse_id, w.name ORDER BY l.warehouse_id";
        self.fetch_all(sql, (), "count the units to pick").await
    }

    /// Returns the shipments of an order that have an id.
    pub(crate) async fn order_shipments(&self, order: OrderId) -> Result<Vec<(i64, Option<String>)>> {
        let sql = "SELECT id, status FROM shipment WHERE order_id = $1 ORDER BY id";
        self.fetch_all(sql, (order,), "read the shipments of an order").await
    }
}

/// Cuts the row beyond a full page. Returns true if there was one.
fn cut_to_page<T>(rows: &mut Vec<T>) -> bool {
    let full = usize::try_from(PAGE_ROWS).unwrap_or(usize::MAX);
    let has_more = rows.len() > full;
    rows.truncate(full);
    has_more
}

/// Returns the case key and the SKU after which a scan begins, and the case key before which it ends.
fn scan_range(filter: &StockFilter) -> (String, String, String) {
    let prefix = case_key(&filter.prefix);
    let from = if filter.after.is_empty() { prefix.clone() } else { case_key(&filter.after) };
    let to = format!("{prefix}{LAST_CHARACTER}");
    (from, filter.after.clone(), to)
}

/// Returns a text for LIKE in lower case, with its wildcards escaped.
fn like_text(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.to_lowercase().chars() {
        if matches!(c, '%' | '_' | '!') {
            escaped.push('!');
        }
        escaped.push(c);
    }
    escaped
}
