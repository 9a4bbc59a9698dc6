//! The eight kinds of change, by the names that other programs insert.

use crate::model::code_enum;

code_enum! {
    pub enum ChangeKind {
        /// A count: the stock level has this quantity.
        QuantitySet = "quantity.set",
        /// An adjustment: this many units more or fewer.
        QuantityAdjust = "quantity.adjust",
        /// Ships an order, or named lines of an order.
        ShipmentCreate = "shipment.create",
        /// Submits the tracking of a shipment.
        TrackingSubmit = "tracking.submit",
        ProductCreate = "product.create",
        ProductUpdate = "product.update",
        WarehouseCreate = "warehouse.create",
        ListingTemplateCreate = "listing_template.create",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name_and_by_no_other_spelling() {
        assert_eq!(ChangeKind::ALL.len(), 8);
        for kind in ChangeKind::ALL {
            assert_eq!(kind.to_string().parse::<ChangeKind>().as_ref(), Ok(kind));
            assert!(kind.as_str().to_uppercase().parse::<ChangeKind>().is_err());
        }
    }

    #[test]
    fn a_misspelled_kind_is_answered_with_the_nearest() {
        let error = "quantity.sett".parse::<ChangeKind>().unwrap_err();
        assert!(error.to_string().ends_with("did you mean `quantity.set`?"), "{error}");
        let error = "fly".parse::<ChangeKind>().unwrap_err();
        assert!(error.to_string().contains("listing_template.create"), "{error}");
        let error = "ü".repeat(100_000).parse::<ChangeKind>().unwrap_err().to_string();
        assert!(error.len() < 500 && error.contains("ü…`"), "a kind of megabytes is not repeated: {error}");
    }
}
