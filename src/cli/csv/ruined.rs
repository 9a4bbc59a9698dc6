//! Texts that a spreadsheet made of a name: error values, formulas, rounded numbers and dates.
//!
//! A SKU or tracking number of this kind is one of another product or parcel, or of none. Only texts in the form that
//! spreadsheets write are meant, because the names of products are as odd: `5E-12`, `#7`, `N/A` and `MAR-12` pass.

use regex::Regex;
use std::sync::LazyLock;

static RUINED: LazyLock<Regex> = LazyLock::new(|| {
    let month = "(Jan|Feb|Mar|Mär|Apr|May|Mai|Jun|Jul|Aug|Sep|Oct|Okt|Nov|Dec|Dez)";
    let forms = [
        "=.*|'[0-9]+|TRUE|FALSE",
        // Error values; a column that is too narrow.
        "#(DIV/0|[^a-z0-9 ]+)[!?]|#N/A|#n/a|#NV|#N/D|#Н/Д|#GETTING_DATA|Err:[0-9]+|##+",
        // Numbers of which 6 digits, or 15, are left.
        r"[0-9]+([.,][0-9]+)?[Ee]\+[0-9]+|[0-9]+[.,][0-9]+[Ee]-[0-9]+|[0-9]{15}0{5,}",
        // Dates, as `1-Sep`, `01. Sep`, `1-Sep-26`, `Sep-26`, `9/1/2026` and `01.09.2026`.
        &format!(r"[0-9]{{1,2}}(-|\. ?){month}(-([0-9]{{2}}|[0-9]{{4}}))?|{month}-[0-9]{{2}}"),
        r"[0-9]{1,2}[./][0-9]{1,2}[./](19|20)[0-9]{2}",
    ];
    Regex::new(&format!("(?s)^({})$", forms.join("|"))).expect("the forms are constants")
});

/// Returns true for a text in a form that a spreadsheet gives to a name that it took for something else.
pub(super) fn is_ruined(text: &str) -> bool {
    RUINED.is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spreadsheet_made_is_told_from_odd_names() {
        let ruined = [
            "#N/A",
            "#n/a",
            "#REF!",
            "#VALUE!",
            "#NAME?",
            "#DIV/0!",
            "#NUM!",
            "#NULL!",
            "#SPILL!",
            "#NV",
            "#BEZUG!",
            "#¡VALOR!",
            "#ССЫЛКА!",
            "#GETTING_DATA",
            "Err:502",
            "########",
            "##",
            "=\"0012345\"",
            "=cmd|' /C calc'!A0",
            "=A1+1",
            "'0012345",
            "1.23457E+12",
            "1,23457E+12",
            "1E+12",
            "1.5E-05",
            "1.23457e+12",
            "TRUE",
            "FALSE",
            "1-Sep",
            "12-Mar",
            "Mar-26",
            "Sep-01",
            "1-Sep-26",
            "1-Sep-2026",
            "01. Sep",
            "12. Mär",
            "9/1/2026",
            "01.09.2026",
            "94001118992231900000",
        ];
        for text in ruined {
            assert!(is_ruined(text), "{text}");
        }
        let names = [
            "MUG-10144-NAV",
            "#7",
            "#",
            "#red!",
            "# 12",
            "N/A",
            "NV",
            "12E5",
            "5E-12",
            "1E12",
            "E+12",
            "true",
            "True",
            "MAR-12",
            "SEP-01",
            "may-12",
            "12-MAR",
            "1/2/16",
            "10-20-30",
            "1-2-2026",
            "2026-03-12",
            "1.2.3",
            "A=B",
            "0012345",
            "00000000000000000000A",
            "1Z999AA10123456784",
            "9400111899223197428490",
            "100000000000000",
            "1000000000000000000",
            "'tis",
            "Mayo-12",
            "TRUE-2",
            "x#N/A",
            "Err:a",
            "+49",
            "-5",
            "@HOME",
        ];
        for text in names {
            assert!(!is_ruined(text), "{text}");
        }
    }
}
