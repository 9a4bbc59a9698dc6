//! Answers that lack records, facts, lines, orders or products: nothing is concluded without proof.

mod facts;
mod order_lines;
mod orders;
mod products;
mod records;
