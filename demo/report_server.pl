#!/usr/bin/perl
# The report of demo/report_server.rb from an app that is not Ruby, and knows nothing of a cache: Perl, in one process,
# with what Perl brings. Ten computations at most run at once; the others stand in line.
#
#   perl demo/report_server.pl --delay 2.0
#
#   GET /report    after the delay: the report; its first line has the number of the computation
#   GET /stats     at once, as JSON: how often the report was computed
#
# Each response ends its connection. The program ends when its standard input is closed.
use strict;
use warnings;
use Getopt::Long;
use IO::Select;
use IO::Socket::INET;
use Time::HiRes qw(time);

my ($delay, $port) = (1.0, 0);
my $most = 10;
GetOptions("delay=f" => \$delay, "port=i" => \$port, "child" => sub { }) or exit 2;
$SIG{PIPE} = "IGNORE";

my $listener = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $port, Listen => 1024, ReuseAddr => 1)
  or die "report_server.pl: can't listen on port $port: $@\n";
$| = 1;
print "http://127.0.0.1:", $listener->sockport, "\n";

my $select = IO::Select->new($listener, \*STDIN);
my $calls = 0;
my (%head, @line, @running); # what came of a head, by its socket; sockets in line; [due, socket, number]

sub respond {
    my ($socket, $type, $body) = @_;
    my $bytes = "HTTP/1.1 200 OK\r\nContent-Type: $type\r\nContent-Length: " . length($body) . "\r\nConnection: close\r\n\r\n$body";
    while (length $bytes) {
        my $count = syswrite($socket, $bytes) or last;
        substr($bytes, 0, $count, "");
    }
    close $socket;
}

sub report {
    my ($number) = @_;
    return "report of call $number\n" . join "", map { "$number/$_: " . (($_ * 7919 + $number) % 10007) . " of 10007 sold, as of today\n" } 0 .. 399;
}

sub received {
    my ($socket) = @_;
    my $count = sysread($socket, $head{$socket}, 65536, length($head{$socket} // ""));
    return if $count && $head{$socket} !~ /\r\n\r\n/;
    $select->remove($socket);
    my $head = delete $head{$socket};
    return close $socket unless $count;
    return respond($socket, "application/json", "{\"calls\":$calls}") if $head =~ m{^GET /stats };
    push @line, $socket;
}

while (1) {
    my $wait = @running ? $running[0][0] - time : undef;
    $wait = 0 if defined $wait && $wait < 0;
    for my $ready ($select->can_read($wait)) {
        if ($ready == $listener) { my $socket = $listener->accept; $select->add($socket) if $socket }
        elsif ($ready == \*STDIN) { exit 0 unless sysread(STDIN, my $ignored, 4096) }
        else { received($ready) }
    }
    while (@running && $running[0][0] <= time) {
        my (undef, $socket, $number) = @{shift @running};
        respond($socket, "text/plain", report($number));
    }
    push @running, [time + $delay, shift @line, ++$calls] while @line && @running < $most;
}
