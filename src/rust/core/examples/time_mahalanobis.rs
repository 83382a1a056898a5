//! Times the clustering of a CSV file of numbers, without R:
//! `cargo run --release --example time_mahalanobis FILE.csv THRESHOLD KIND cmd|fmd [THREADS]`.

use std::time::Instant;

use gmhclust_core::mahalanobis::{cluster, Options, Subthreshold};
use gmhclust_core::{backend, Matrix, Monitor};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = std::fs::read_to_string(&arguments[0]).expect("a readable file");
    let rows: Vec<Vec<f64>> = text
        .lines()
        .filter_map(|line| line.split(',').map(|v| v.parse().ok()).collect())
        .collect();
    let x = Matrix::from_row_major(rows.concat(), rows.len(), rows[0].len()).expect("numbers");
    let options = Options {
        threshold: arguments[1].parse().expect("a threshold"),
        subthreshold: match arguments[2].as_str() {
            "mahal" => Subthreshold::Mahal,
            "mahal0" => Subthreshold::Mahal0,
            "euclid" => Subthreshold::Euclid,
            _ => Subthreshold::EuclidMahal,
        },
        quick: arguments[3] == "cmd",
        normalize: false,
        apriori_intra: true,
    };
    let threads = arguments.get(4).map_or(2, |t| t.parse().expect("a number"));
    let backend = backend::select("cpu", threads).expect("threads");
    let start = Instant::now();
    let tree = cluster(&x, None, &options, &*backend, &Monitor::default()).expect("a tree");
    println!(
        "{} x {} {:?} {}: {:.3} s, last height {}",
        x.rows(),
        x.columns(),
        options.subthreshold,
        arguments[3],
        start.elapsed().as_secs_f64(),
        tree.dendrogram.height.last().expect("a merge")
    );
}
