from mininet.topo import Topo

class Two(Topo):
    "Two hosts. addHost('no')"
    def build(self, n=2):
        left = self.addHost('h1', ip='10.0.0.7/8')
        right = self.addHost("h2")
        sw = self.addSwitch('s1')  # addSwitch('s9')
        self.addLink(left, sw, bw=10, delay='5ms', loss=2,
                     max_queue_size=1000, use_htb=True)
        self.addLink(sw, right, cls=TCLink, delay=500, jitter='1ms', bw=BW)
        for i in range(n):
            h = self.addHost('x%s' % i)
            self.addLink(h, sw)
        self.addLink('h1', 's1', **opts)
net.addController('c0')
net.get('h1').cmd('iperf -s &')
net.addLink(net['h1'], net.get('h2'))
def addHost(name): pass
