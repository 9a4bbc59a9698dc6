//! Way of a host to the platform: a relay of connections that shows what the host sends, before it passes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Opens a way from a new port of an address, which is returned.
pub async fn open_road(
    from: IpAddr,
    to: SocketAddr,
    on_sent: impl Fn(&[u8]) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind((from, 0)).await.unwrap();
    let (address, on_sent) = (listener.local_addr().unwrap(), Arc::new(on_sent));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let on_sent = Arc::clone(&on_sent);
            tokio::spawn(async move {
                let Ok(server) = TcpStream::connect(to).await else { return };
                let ((mut from, mut back), (mut answers, mut on)) =
                    (client.into_split(), server.into_split());
                let requests = async {
                    let mut bytes = vec![0; 1 << 16];
                    while let Ok(size @ 1..) = from.read(&mut bytes).await {
                        on_sent(&bytes[..size]);
                        if on.write_all(&bytes[..size]).await.is_err() {
                            return;
                        }
                    }
                };
                // Either end closes the other one.
                tokio::select! {
                    () = requests => {}
                    _ = tokio::io::copy(&mut answers, &mut back) => {}
                }
            });
        }
    });
    address
}
