package indextables.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.util.CloseableIterator;

/** Arrow's stream format as rows. */
final class Rows {
    static List of(byte[] stream) {
        CloseableIterator rows = (CloseableIterator) ArrowConverters$.MODULE$.fromIPCStream(stream)._1();
        try {
            List found = new ArrayList();
            while (rows.hasNext()) found.add(((InternalRow) rows.next()).copy());
            return found;
        } finally {
            try {
                rows.close();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
