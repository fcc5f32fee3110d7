//! The codes of all findings about a gateway's configuration. `docs/gateway-codes.md` is their table.

use route_contract::document::Codes;

/// Faults that the strict reading of TOML finds.
pub const DOCUMENT: Codes = Codes {
    unreadable: "GW0101",
    syntax: "GW0102",
    unknown_key: "GW0103",
    missing_key: "GW0104",
    invalid_value: "GW0105",
};

/// A variable that is not set and has no default.
pub const VARIABLE_UNSET: &str = "GW0106";
/// A variable that is set to nothing or to blanks, or is not UTF-8.
pub const VARIABLE_BLANK: &str = "GW0107";
/// `${` that is not closed, nested, or without a valid name.
pub const VARIABLE_FORM: &str = "GW0108";

/// A number or size out of its range.
pub const OUT_OF_RANGE: &str = "GW0201";
/// A forwarded family without its `[upstream]` table.
pub const UPSTREAM_MISSING: &str = "GW0202";
/// An `[upstream]` table for a family that the contract does not have.
pub const UPSTREAM_UNKNOWN: &str = "GW0203";
/// An `[upstream]` table for a family with `serve = "never"`.
pub const UPSTREAM_NEVER: &str = "GW0204";
/// A probe's target that is not an absolute path.
pub const PROBE_TARGET: &str = "GW0205";
/// A public readiness path that is not an absolute, plain path.
pub const READINESS_PATH: &str = "GW0206";
/// A public readiness path that the contract claims.
pub const READINESS_CLAIMED: &str = "GW0207";
/// Two public readiness paths that answer to the same request.
pub const READINESS_TWICE: &str = "GW0208";
/// One address for both listeners.
pub const SAME_ADDRESS: &str = "GW0209";
/// The admin listener is open beyond this machine and asks for no token.
pub const ADMIN_EXPOSED: &str = "GW0210";
/// A contract that forwards nothing.
pub const NOTHING_FORWARDED: &str = "GW0211";

/// The certificates of trusted authorities cannot be loaded, or there are none for an upstream with TLS.
pub const CERTIFICATES: &str = "GW0212";

/// A file of certificates or keys that cannot be used.
pub const CERTIFICATE_FILE: &str = "GW0213";
/// A key of another certificate.
pub const KEY_MISMATCH: &str = "GW0214";
/// A certificate that clients will refuse (a warning).
pub const CERTIFICATE_DOUBTFUL: &str = "GW0215";
/// Client certificates without an authority to judge them by, or the other way round.
pub const CLIENT_AUTH: &str = "GW0216";
/// Keys of an upstream's TLS that do not fit its URL or each other.
pub const UPSTREAM_TLS: &str = "GW0217";
/// An upstream whose certificate is not verified (a warning).
pub const UPSTREAM_UNVERIFIED: &str = "GW0218";

/// Both `url` and `urls`, or one URL twice.
pub const URL_TWICE: &str = "GW0220";
/// An affinity by a parameter that none of the family's paths has.
pub const AFFINITY_PARAMETER: &str = "GW0221";
/// More endpoints must be ready than there can be.
pub const READY_MIN: &str = "GW0222";
/// A time that another one never lets pass (a warning).
pub const TIME_NEVER_REACHED: &str = "GW0223";
/// The file of the admin listener's token cannot be read, or holds none.
pub const ADMIN_TOKEN: &str = "GW0224";
/// A drain that is over before its delay.
pub const DRAIN_TIMES: &str = "GW0225";
/// A file that `gateway run` could not make (a warning).
pub const NO_PLACE_FOR_FILE: &str = "GW0226";

/// A collector that cannot be spoken to.
pub const TRACES_ENDPOINT: &str = "GW0230";
/// Spans without the name of a service.
pub const TRACES_SERVICE: &str = "GW0231";

/// A reload with another value of a key that only a restart can change.
pub const NEEDS_RESTART: &str = "GW0301";
/// A watched contract that has lost what no table of the configuration would show.
pub const FAMILY_LOST: &str = "GW0302";
/// A watched file that looks cut off, or files that change while they are read.
pub const FILE_UNFINISHED: &str = "GW0303";

/// Findings about the meaning of a configuration that hold whatever is wrong with its other values.
pub const OF_ONE_VALUE: &[&str] = &[
    OUT_OF_RANGE,
    UPSTREAM_MISSING,
    UPSTREAM_UNKNOWN,
    UPSTREAM_NEVER,
    PROBE_TARGET,
    READINESS_PATH,
    READINESS_CLAIMED,
    READINESS_TWICE,
    ADMIN_EXPOSED,
    AFFINITY_PARAMETER,
    TRACES_ENDPOINT,
    TRACES_SERVICE,
];

/// Each code with what it says.
pub const TABLE: &[(&str, &str)] = &[
    (
        DOCUMENT.unreadable,
        "The file cannot be read, is larger than 64 MiB, or is not UTF-8.",
    ),
    (DOCUMENT.syntax, "The file is not TOML, or names a key or table twice."),
    (DOCUMENT.unknown_key, "A table holds a key that it does not have."),
    (DOCUMENT.missing_key, "A table lacks a key that it needs."),
    (
        DOCUMENT.invalid_value,
        "A value has the wrong type or form; for durations, sizes and URLs the text says which rule it breaks.",
    ),
    (
        VARIABLE_UNSET,
        "A `${VAR}` names a variable that is not set; set it, or write `${VAR:-default}`.",
    ),
    (
        VARIABLE_BLANK,
        "A `${VAR}` names a variable that is set to nothing or to blanks, or whose value is not UTF-8.",
    ),
    (
        VARIABLE_FORM,
        "A `${` is not closed, holds another `${`, or its name is not letters, digits and underscores.",
    ),
    (OUT_OF_RANGE, "A number or size is outside the range of its key."),
    (
        UPSTREAM_MISSING,
        "The contract forwards a family that has no `[upstream.NAME]` table.",
    ),
    (
        UPSTREAM_UNKNOWN,
        "An `[upstream.NAME]` table names no family of the contract.",
    ),
    (
        UPSTREAM_NEVER,
        "An `[upstream.NAME]` table names a family with `serve = \"never\"`, to which nothing is forwarded.",
    ),
    (
        PROBE_TARGET,
        "The target of a probe is not an absolute path of visible ASCII characters.",
    ),
    (
        READINESS_PATH,
        "A public readiness path is not an absolute path of plain segments.",
    ),
    (
        READINESS_CLAIMED,
        "A public readiness path, or one below it, is claimed by a family of the contract.",
    ),
    (
        READINESS_TWICE,
        "Two public readiness paths answer to the same request.",
    ),
    (SAME_ADDRESS, "The public and the admin listener have the same address."),
    (
        ADMIN_EXPOSED,
        "The admin listener is open beyond this machine, asks for no token, and is not said to be meant so.",
    ),
    (
        NOTHING_FORWARDED,
        "The contract forwards no family, so there is nothing to serve.",
    ),
    (
        CERTIFICATES,
        "The certificates of trusted authorities cannot be loaded, or an upstream has TLS and there are none.",
    ),
    (
        CERTIFICATE_FILE,
        "A file of certificates or keys cannot be read, is not PEM, or does not hold what it is to hold.",
    ),
    (KEY_MISMATCH, "A private key does not belong to its certificate."),
    (
        CERTIFICATE_DOUBTFUL,
        "A certificate has expired or is not valid yet, or bears no host name, so that clients will refuse it (a warning).",
    ),
    (
        CLIENT_AUTH,
        "Client certificates are asked for without `client_ca`, or `client_ca` stands beside `client_auth = \"none\"`.",
    ),
    (
        UPSTREAM_TLS,
        "An upstream has keys for TLS without an `https` URL, or one of `cert` and `key` without the other.",
    ),
    (
        UPSTREAM_UNVERIFIED,
        "An upstream's certificate is not verified, so anybody in between can pose as it (a warning).",
    ),
    (
        URL_TWICE,
        "An `[upstream.NAME]` table has both `url` and `urls`, or names one URL twice.",
    ),
    (
        AFFINITY_PARAMETER,
        "A family's affinity is a parameter that none of its claims and routes has.",
    ),
    (READY_MIN, "More endpoints must be ready than a family's URLs can have."),
    (
        TIME_NEVER_REACHED,
        "A time limit of a family is never reached, as its total time is over before (a warning).",
    ),
    (
        ADMIN_TOKEN,
        "The file of the admin listener's token cannot be read, or holds no token of 16 to 512 visible ASCII characters.",
    ),
    (DRAIN_TIMES, "`drain.timeout` leaves no time after `drain.delay`."),
    (
        NO_PLACE_FOR_FILE,
        "A log file or an admin socket cannot be made where it is to be: its folder is not there (a warning).",
    ),
    (
        TRACES_ENDPOINT,
        "The collector of `[traces]` has an `h2c` URL; spans are sent by HTTP/1.1.",
    ),
    (TRACES_SERVICE, "The name of the service in `[traces]` is empty."),
    (
        NEEDS_RESTART,
        "A reload has another value of a key that only a restart can change; nothing of it was taken over.",
    ),
    (
        FAMILY_LOST,
        "A watched contract has lost a family that is never forwarded, or the `routes` of a family; SIGHUP takes it over.",
    ),
    (
        FILE_UNFINISHED,
        "A watched file looks cut off, or the files change while they are read; SIGHUP takes a whole file over.",
    ),
];

#[cfg(test)]
mod tests {
    use super::TABLE;

    #[test]
    fn the_documented_table_is_this_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/gateway-codes.md");
        let page = std::fs::read_to_string(path).unwrap();
        let documented: Vec<(&str, &str)> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| GW"))
            .filter_map(|rest| rest.trim_end_matches(" |").split_once(" | "))
            .collect();
        let expected: Vec<(&str, &str)> = TABLE
            .iter()
            .map(|(code, text)| (code.trim_start_matches("GW"), *text))
            .collect();
        assert_eq!(documented, expected);
    }

    #[test]
    fn codes_are_unique_and_in_order() {
        assert!(TABLE.is_sorted_by(|left, right| left.0 < right.0));
    }
}
