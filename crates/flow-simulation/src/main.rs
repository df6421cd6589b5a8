fn main() {
    let from: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let n: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    for seed in from..from + n {
        let setup = flow_simulation::run::Setup { seed, ..Default::default() };
        let ran = flow_simulation::run::run(&setup);
        println!("{seed} {:x} {} {:?} {}s {:?}", ran.digest, ran.events, ran.ends, ran.virtual_ms/1000, ran.broken);
        if ran.broken.is_some() {
            let (_s, ran) = flow_simulation::shrink::shrink(&setup);
            for line in ran.lines { println!("{line}"); }
            break;
        }
    }
}
